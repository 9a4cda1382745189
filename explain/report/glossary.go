package report

import "github.com/funcgp/funcgp/gp"

// priorMeaning is the prior mean in plain words.
const priorMeaning = "what the trained features say before any label is used"

// guide explains the words that the page uses.
func (h *htmlWriter) guide() []fact {
	list := h.terms()
	if h.novelty() == "" || h.kind == regression {
		return list
	}
	return append(list, fact{Name: "Entropy, in nats", Value: "How undecided the prediction is before calibration: 0 when certain, 0.69 for an even choice of two. Mutual information is the part of it that more training data could take away."})
}

func (h *htmlWriter) terms() []fact {
	n := count(h.page.Report.Fit.Examples)
	what := "the covariance of what is still unknown at the example and at this row, times what the example's label asks of the function there"
	if h.page.Terms == gp.Raw {
		what = "the prior kernel between the example and this row, times the example's dual weight"
	}
	list := []fact{
		{Name: "Contribution", Value: "The prediction is a sum: what the trained features say before any label is used, plus one term for each of the " + n + " training examples. A term is " + what + ". All are counted, the largest are listed."},
		{Name: "Before any label is used", Value: "The prior mean: what the network, linearized where training ended, says with its parameters set back to the prior mean. Its features were learnt from the same data, so it is no view from outside, and it differs from row to row."},
		{Name: "Without it", Value: "Removal: how far f would move if the example were taken out and the model fitted again, to first order. It is usually smaller than the contribution, because other examples make up for the loss."},
		{Name: "Similarity", Value: "The posterior correlation, −1 to 1: near 1, whatever is learnt about one row holds for the other. A negative one turns the example's label round."},
		{Name: "Remainder", Value: "The difference between the trained network and the sum. Where it is large, the sum explains another function than the network."},
	}
	if h.kind == regression {
		return append(list,
			fact{Name: "±", Value: "One standard deviation. That of f says how much networks that fit the training data differ; that of a new observation has the noise of the targets in it as well."},
			fact{Name: "95 % interval", Value: "Where a new observation lies with probability 95 %, if noise and prior are as assumed."},
			prior)
	}
	return append(list,
		fact{Name: "Log-odds, f", Value: "The logarithm of how many times more probable one class is than the other: 0 is even, 2.2 is 9 to 1, 4.6 is 99 to 1. Positive speaks for the predicted class."},
		fact{Name: "±", Value: "One posterior standard deviation: how much the number differs between networks that fit the training data."},
		fact{Name: "Against its own label", Value: "An example may speak against the class it is labelled with. Either it is unlike this row, or the model already goes too far for it and it pulls back."},
		prior)
}

var prior = fact{Name: "Prior precision δ", Value: "How strongly the parameters were held near zero in training, as by weight decay. A wrong one makes the error bars wrong: small δ means wide, large δ narrow."}
