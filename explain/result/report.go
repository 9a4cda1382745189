package result

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/funcgp/funcgp/explain"
)

// ImportanceMeaning explains |α|.
const ImportanceMeaning = "|α| is how strongly an example pulls the model to its label: the slope of the example's log likelihood at the fitted model, in nats per unit of f, never negative. " +
	"It is near zero for an example that the model predicts well without it; examples with a large one are hard, unusual or wrongly labelled, and worth a look first."

// A Report is the result of `gpexplain explain`. Other programs read its JSON, so
// the names, order and meaning of the fields do not change. Outputs come from
// Rows.Output; the caller fills in the rest.
type Report struct {
	Input   Input    `json:"input"`
	Classes []string `json:"classes,omitempty"` // names in the order of the probabilities; none for a regression
	Labels  []string `json:"labels,omitempty"`  // the same of labels of which a row has any number; else none
	// Meanings explains each score by the name of its member: what it is, its unit and its sign. nil explains
	// nothing.
	Meanings   map[string]string `json:"meanings,omitempty"`
	Prediction Prediction        `json:"prediction"`
	Outputs    []Output          `json:"outputs"`           // every output in order, then contrasts
	Without    *Changed          `json:"without,omitempty"` // nil unless it was asked for
	Flip       *Changed          `json:"flip,omitempty"`    // nil unless it was asked for

	SmallestFlip *SmallestFlip `json:"smallest_flip,omitempty"` // nil unless it was asked for

	Networks *Networks `json:"networks,omitempty"` // of the mean of several networks; nil for one

	// Interval holds the ends of the central 95 % interval of a new observation, for a regression of one
	// target; otherwise it is nil. Pages show it.
	Interval []float64 `json:"-"`

	Record  *Record `json:"record,omitempty"` // nil where nobody asked how the answer came about
	Fit     Fit     `json:"fit"`
	Timings Timings `json:"timings"`
}

// Main returns the output that a reader asks about first: the contrast if there is one, and otherwise the first
// output.
func (r *Report) Main() *Output {
	if last := &r.Outputs[len(r.Outputs)-1]; last.Contrast != nil {
		return last
	}
	return &r.Outputs[0]
}

// Changed is the prediction for the row from other training data: without some rows, or with other labels. The
// linearized model is fitted to these data, and the prediction moves by as much as that changes the model. It
// is calibrated as the original prediction is.
type Changed struct {
	Rows        []int   `json:"rows"`             // of the original file, as they were given
	Labels      []Float `json:"labels,omitempty"` // the other label of each row, of a flip
	Mean        []Float `json:"mean"`             // of f, length C
	Probability []Float `json:"probability"`      // of each class; nil for a regression
	Class       Float   `json:"class"`            // label of the most probable class; NaN for a regression

	LabelNames []string `json:"label_names,omitempty"` // where classes have names
	ClassName  string   `json:"class_name,omitempty"`
}

// SmallestFlip is the smallest set of training rows, found greedily, without which the class of the row
// changes. The class is that of the largest posterior mean f, or for one output of its sign. Rows ascend. If no
// set was found, they are empty and the prediction is nil.
type SmallestFlip struct {
	Changed
	Found     bool    `json:"found"`
	Confirmed bool    `json:"confirmed"`        // a fit without Rows from scratch has the other class too
	Tried     int     `json:"tried"`            // sets that were fitted
	Left      int     `json:"left_out"`         // the most rows that were left out, as many as Rows where a set was found
	Margin    []Float `json:"margin,omitempty"` // where no set was found, how far f is from another class with all rows and without so many, in units of f
}

// Input is the row explained.
type Input struct {
	Split string `json:"split"`          // train, valid or test, or file for an input file
	Index Index  `json:"index"`          // row of the original file; -1 for a file
	Label Float  `json:"label"`          // label or target in the data; NaN if unknown
	File  string `json:"file,omitempty"` // name of the input file

	LabelName string `json:"label_name,omitempty"` // where classes have names
	ID        string `json:"id,omitempty"`         // name of the row, where rows have names

	Targets []Float `json:"targets,omitempty"` // where a row has several; Label is NaN then

	Notes []string `json:"notes,omitempty"` // what was done to a file to fit it to the model
}

// Output is the explanation of one output or contrast.
type Output struct {
	Output          Index          `json:"output"`             // c; -1 for a contrast
	Contrast        *Contrasted    `json:"contrast,omitempty"` // only for a contrast
	Network         Float          `json:"network"`            // the network's own output; with a refit or variational inference the sum is another
	PriorMean       Float          `json:"prior_mean"`
	ContributionSum Float          `json:"contribution_sum"` // over all N
	Remainder       Float          `json:"remainder"`
	Residual        Float          `json:"sum_residual"`     // of the sum: the same sum in the raw kernel less this one, 0 but for rounding
	Tolerance       Float          `json:"sum_tolerance"`    // the residual that rounding explains
	Cancellation    Float          `json:"cancellation"`     // over all N
	RawCancellation Float          `json:"raw_cancellation"` // over all N
	Contributions   []Contribution `json:"contributions"`
	Subtotals       []Subtotal     `json:"subtotals,omitempty"` // over all N
	Layers          []LayerSum     `json:"layers,omitempty"`    // over all N; they add up to ContributionSum
	Networks        *NetworkSums   `json:"networks,omitempty"`  // of the mean of several networks; nil for one

	// Name and Other say what a positive and what a negative term speaks for: a class, a label or a target, or
	// the number of an output. Other is "" if nothing is subtracted. They are not part of the JSON.
	Name  string `json:"-"`
	Other string `json:"-"`
	// For and Against are the largest contributions of each sign, and Similar the most similar training
	// examples. Pages show them; they are not part of the JSON.
	For, Against []Contribution `json:"-"`
	Similar      []Contribution `json:"-"`
	// Curve is the running sum of the terms, the largest first. Pages show it.
	Curve []explain.CurvePoint `json:"-"`
}

// Subtotal is the sum of the contributions of the training examples of one class or, in a regression, of those
// with targets in a range.
type Subtotal struct {
	Label     Float   `json:"label"` // NaN for a range
	LabelName string  `json:"label_name,omitempty"`
	Range     []Float `json:"range,omitempty"` // smallest and largest target of the examples
	Examples  int     `json:"examples"`
	Positive  Float   `json:"positive"` // sum of the positive terms
	Negative  Float   `json:"negative"` // sum of the negative terms
}

// Contrasted names the outputs of a contrast, f_plus − f_minus.
type Contrasted struct {
	Plus  int `json:"plus"`
	Minus int `json:"minus"`
}

// Contribution is the contribution of one training example, with the fields of explain.Term.
type Contribution struct {
	Index        Index   `json:"index"` // row of the original file
	Label        Float   `json:"label"` // label or target in the data
	Value        Float   `json:"value"`
	PseudoTarget []Float `json:"pseudo_target"` // nil for the mean of several networks
	Raw          Float   `json:"raw"`
	Alpha        []Float `json:"alpha"` // nil likewise
	Similarity   Float   `json:"similarity"`
	Removal      Float   `json:"removal"`
	Influence    *Float  `json:"influence,omitempty"` // nil without explain.AddInfluence

	LabelName string `json:"label_name,omitempty"` // where classes have names
	ID        string `json:"id,omitempty"`         // name of the row, where rows have names

	// VarianceReduction is as in explain.Term, and nil unless Rows.ErrorBars is set.
	VarianceReduction *Float `json:"variance_reduction,omitempty"`
	SD                *Float `json:"sd,omitempty"` // of Value
	Distinguishable   *bool  `json:"distinguishable,omitempty"`

	Layers []Float `json:"layers,omitempty"` // parts of the listed kind of term, in the order of Output.Layers

	Networks *TermSpread `json:"networks,omitempty"` // how the term varies over several networks; nil for one
}

// Signed returns the contribution with Value, Raw, Removal and Influence multiplied by sign, which is 1 or −1.
func (c Contribution) Signed(sign float64) Contribution {
	for _, v := range []*Float{&c.Value, &c.Raw, &c.Removal} {
		*v *= Float(sign)
	}
	if c.Influence != nil {
		v := *c.Influence * Float(sign)
		c.Influence = &v
	}
	return c
}

// LayerSum is the contribution of the parameters of one layer, summed over all training examples.
type LayerSum struct {
	Name string `json:"name"`
	Sum  Float  `json:"sum"`
}

// WriteJSON writes the report as one object on one line, with the name of its schema,
// which is doc/schema/explain.json, as the first member.
func (r *Report) WriteJSON(w io.Writer) error {
	return writeJSON(w, struct {
		Schema string `json:"schema"`
		*Report
	}{"funcgp/explain/1", r})
}

func writeJSON(w io.Writer, object any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(object); err != nil {
		return fmt.Errorf("result: writing JSON: %w", err)
	}
	return nil
}

// An ImportanceReport is the result of `gpexplain importances`.
type ImportanceReport struct {
	Meanings    map[string]string `json:"meanings"`    // what each score says, its unit and its sign
	Importances []ImportantRow    `json:"importances"` // the largest |α_i|, largest first
	Curve       []Float           `json:"curve"`       // |α_i| of all N, sorted
	Record      *Record           `json:"record,omitempty"`
	Fit         Fit               `json:"fit"`
	Timings     Timings           `json:"timings"`
}

// ImportantRow is the importance of one training example.
type ImportantRow struct {
	Index Index   `json:"index"` // row of the original file
	Label Float   `json:"label"`
	Norm  Float   `json:"norm"`  // |α_i|
	Alpha []Float `json:"alpha"` // α_i, length C

	LabelName string `json:"label_name,omitempty"`
	ID        string `json:"id,omitempty"`
}

// WriteJSON writes the report as one object on one line, with the name of its schema,
// which is doc/schema/importances.json, as the first member.
func (r *ImportanceReport) WriteJSON(w io.Writer) error {
	return writeJSON(w, struct {
		Schema string `json:"schema"`
		*ImportanceReport
	}{"funcgp/importances/1", r})
}

// DefaultTop is the number of terms that are listed where nobody says how many.
const DefaultTop = 8
