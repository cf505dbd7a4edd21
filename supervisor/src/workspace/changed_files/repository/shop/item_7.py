price = 7
