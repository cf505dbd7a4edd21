price = 11
