price = 23
