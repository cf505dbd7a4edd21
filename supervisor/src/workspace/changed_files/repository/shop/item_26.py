price = 26
