package result

import "time"

// A Record says how an answer came about, so that it can be filed and reproduced. Empty fields are left out.
type Record struct {
	Date            time.Time `json:"date"`                       // when the answer was made, with its time zone
	Version         string    `json:"version"`                    // of the program
	Command         string    `json:"command,omitempty"`          // the command line as it was typed
	ModelSHA256     string    `json:"model_sha256,omitempty"`     // of the model's file, in hexadecimal digits; "" for several
	Networks        []FileSum `json:"networks,omitempty"`         // of the files of several networks
	DataSHA256      []FileSum `json:"data_sha256,omitempty"`      // of the files of data; none for data that are made
	PosteriorSHA256 string    `json:"posterior_sha256,omitempty"` // of the posterior's file; "" where it was fitted for the answer
	Says            string    `json:"says,omitempty"`             // what an explanation by examples does not say
	Scored          *Scored   `json:"scored,omitempty"`           // of an explanation

	Test *TestScores `json:"-"` // the network on the data's test rows, which pages show
}

// An Origin says where the numbers of a page come from. Empty fields are left out.
type Origin struct {
	Model, Data string // their names
	Record      Record // and by which command
	// Invert says that 255 is ink, as in MNIST. A light page then shows the
	// pictures inverted, as ink on paper.
	Invert bool
}

// A Scored holds the row for which an answer was computed, and the margin on which the answer's decision
// depends.
type Scored struct {
	Input     []Float `json:"input"`               // as the network took it, after scaling
	Threshold *Float  `json:"threshold,omitempty"` // of two classes: the probability from which the second is the class
	Margin    *Float  `json:"margin,omitempty"`    // of classes: the largest probability less the next
}

// NewScored describes a row, with D inputs, and the margin on which the decision of its prediction depends.
func NewScored(input []float64, p *Prediction) *Scored {
	s := &Scored{Input: Floats(input)}
	if margin := p.Margin(); margin.Finite() {
		if s.Margin = &margin; len(p.Probability) == 2 {
			half := Float(0.5)
			s.Threshold = &half
		}
	}
	return s
}

// NoCause is the caution in the record of an explanation that terms are no causes.
const NoCause = "The terms say which training examples hold the prediction together, as the sum adds up; they state no cause, and no reason in the sense of a law."

// A FileSum is the SHA-256 of a file, in hexadecimal digits.
type FileSum struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

// TestScores say how well the network alone predicts rows that it was not trained
// on. Accuracy is NaN for a regression, and RMSE for classes.
type TestScores struct {
	Rows           int
	Accuracy, RMSE Float
	NLL            Float // negative log likelihood of a row, in nats
}
