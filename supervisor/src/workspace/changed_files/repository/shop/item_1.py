price = 1
