price = 13
