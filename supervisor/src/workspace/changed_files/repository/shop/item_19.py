price = 19
