prices = 3
