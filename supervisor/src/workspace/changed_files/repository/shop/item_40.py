price = 40
