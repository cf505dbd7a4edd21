price = 36
