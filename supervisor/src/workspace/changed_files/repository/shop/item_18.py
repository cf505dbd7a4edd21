price = 18
