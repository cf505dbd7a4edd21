price = 39
