price = 8
