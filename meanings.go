package funcgp

import (
	"fmt"

	"github.com/funcgp/funcgp/internal/option"
)

// meanings explains each score in the JSON of an explanation by this many networks: what it is, its unit and
// its sign.
func meanings(p *problem, o *ExplainOptions, networks int) map[string]string {
	unit := p.Unit()
	m := map[string]string{
		"value":      fmt.Sprintf("what the training row adds to the output, in its unit: %s; a positive one raises the output. Go by it for the rows that hold the prediction together", unit),
		"raw":        "the same in the prior kernel, where the terms of different explained rows are much alike; unit and sign of value",
		"removal":    option.Text("the output without the training row less the output with it, to first order, in the unit of value; a positive one says that the output would rise. Go by it for a single row, and for many at once by influence ({influence})").In(p.Words),
		"similarity": "posterior correlation of the output at the training row and at the explained one, no unit, from −1 to 1; where negative, what raises the one lowers the other",
	}
	if hasClasses(p.Task.Likelihood) {
		m["value"] += ": trained again without those of the largest values, a network changes most"
	} else {
		m["value"] += "; what networks become that are trained without rows it does not foretell in a regression: for that go by removal"
	}
	if networks > 1 {
		m["networks"] = "sd is the standard deviation of one network's number and se the standard error of the mean over the networks, both in the unit of the number and not negative"
	} else {
		m["sd"] = "how much value would vary had the label of the training row been drawn anew, a standard deviation in the unit of value, not negative"
		m["variance_reduction"] = "what the training row takes off the variance of the output, the square of sd, in the squared unit of value, not negative"
	}
	if o.Influence {
		m["influence"] = "the output with the training row less without it, the other rows at half of their weight, to first order, in the unit of value; a positive one raises the output. Go by its sums for what many rows do together"
	}
	if o.ByLayer {
		m["layers"] = "what comes through the parameters of each layer, in the unit and with the sign of value"
	}
	changed := fmt.Sprintf("mean is each output plus what the refit changes by with the changed training data, in its unit: %s; less prediction.mean it is what the change does, positive where the output rises; probability has no unit", unit)
	switch {
	case len(o.Without) > 0:
		m["without"] = changed
	case len(o.Flip) > 0:
		m["flip"] = changed
	case o.SmallestFlip:
		m["smallest_flip"] = changed
	}
	return m
}
