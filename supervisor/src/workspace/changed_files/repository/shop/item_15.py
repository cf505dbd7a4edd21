price = 15
