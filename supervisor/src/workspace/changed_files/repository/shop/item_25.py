price = 25
