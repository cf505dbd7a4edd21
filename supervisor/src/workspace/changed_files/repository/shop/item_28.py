price = 28
