price = 10
