price = 22
