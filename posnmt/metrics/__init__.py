"""What sacreBLEU and others count of a sentence, as numbers that add up over sentences, and scores of such sums."""
