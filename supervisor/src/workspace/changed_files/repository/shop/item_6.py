price = 6
