package result

import (
	"math"

	"github.com/funcgp/funcgp/glm/score"
)

// A Coverage says how many of the predicted rows have their target in their Region.
type Coverage struct {
	Share    Float    `json:"share"`    // asked for
	Measured Float    `json:"measured"` // share of the rows
	Band     [2]Float `json:"band"`     // 95 % confidence interval of that share [Clopper and Pearson]
	Width    *Float   `json:"mean_width,omitempty"`
	Size     *Float   `json:"mean_size,omitempty"`
	Empty    int      `json:"empty"`     // rows with an empty interval or set
	From     string   `json:"from"`      // loo: training rows without themselves; heldout: rows not trained on
	Scored   int      `json:"scored"`    // number of those rows
	Unknown  int      `json:"undefined"` // of them, those that count as infinitely far

	Rows int  `json:"-"` // with a label
	held int  // of them, those in their region
	size mean // of the bounded regions
}

// add counts a row with its region.
func (c *Coverage) add(r *Prediction) {
	size := r.Size()
	if r.Label.Finite() {
		c.Rows++
		if r.Holds(r.Label) {
			c.held++
		}
	}
	if r.Empty() {
		c.Empty++
	}
	if !math.IsInf(size, 0) {
		c.size.add(size)
	}
	mean := c.size.value()
	if c.Width, c.Size = nil, &mean; r.Set == nil {
		c.Width, c.Size = &mean, nil
	}
}

// Covered reports how many of the test rows have their target in their region. It is nil if no coverage was
// asked for.
func (p *Predictions) Covered() *Coverage {
	c := p.Coverage
	if c == nil {
		return nil
	}
	c.Measured, c.Band = Undefined(), [2]Float{Undefined(), Undefined()}
	if c.Rows > 0 {
		lo, hi := score.ClopperPearson(c.held, c.Rows, .95)
		c.Measured, c.Band = Float(c.held)/Float(c.Rows), [2]Float{Float(lo), Float(hi)}
	}
	return c
}
