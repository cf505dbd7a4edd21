price = 31
