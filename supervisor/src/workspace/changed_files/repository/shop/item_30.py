price = 30
