price = 34
