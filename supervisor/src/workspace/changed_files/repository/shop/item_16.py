price = 16
