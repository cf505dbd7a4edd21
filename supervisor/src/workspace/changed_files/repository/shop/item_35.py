price = 35
