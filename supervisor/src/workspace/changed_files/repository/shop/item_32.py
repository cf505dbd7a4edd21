price = 32
