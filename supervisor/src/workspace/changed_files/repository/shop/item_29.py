price = 29
