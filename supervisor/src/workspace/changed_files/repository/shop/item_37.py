price = 37
