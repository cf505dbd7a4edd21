price = 14
