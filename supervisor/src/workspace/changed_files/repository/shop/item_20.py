price = 20
