price = 17
