price = 9
