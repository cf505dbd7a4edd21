price = 24
