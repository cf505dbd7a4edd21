price = 12
