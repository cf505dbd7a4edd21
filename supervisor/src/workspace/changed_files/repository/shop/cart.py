cart = 1
