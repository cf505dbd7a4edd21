price = 5
