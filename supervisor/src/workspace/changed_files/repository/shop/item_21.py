price = 21
