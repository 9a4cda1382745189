package report

import "time"

// A Record is what a page says about how it came about, so that its numbers can be
// made again. What is empty is left out.
type Record struct {
	Date        time.Time   // when the page was made, with its time zone
	Version     string      // of the program
	ModelSHA256 string      // of the model's file, in hexadecimal digits; "" for several
	Networks    []FileSum   // of the files of several networks
	DataSHA256  []FileSum   // of the files of data
	Test        *TestScores // the network on the data's test rows
}

// A FileSum is the SHA-256 of a file, in hexadecimal digits.
type FileSum struct{ Name, SHA256 string }

// TestScores say how well the network alone predicts rows that it was not trained
// on. Accuracy is NaN for a regression, and RMSE for classes.
type TestScores struct {
	Rows           int
	Accuracy, RMSE Float
	NLL            Float // negative log likelihood of a row, in nats
}

// Preprocessing says in words what was done to the data before the network saw them,
// such as "each column less its mean, over its standard deviation".
type Preprocessing struct {
	Inputs  string `json:"inputs"`
	Targets string `json:"targets"`
	Origin  string `json:"origin"` // where that came from
}

// Preflight says whether the network is one that was trained on these data, with this
// prior and preprocessing. Where it does not seem so, no explanation is to be trusted.
type Preflight struct {
	Verdict       string `json:"verdict"`                  // ok or warning
	TrainNLL      Float  `json:"train_nll"`                // of the network alone on the training rows, in nats a row
	TrainAccuracy *Float `json:"train_accuracy,omitempty"` // of classes
	TrainRMSE     *Float `json:"train_rmse,omitempty"`     // of a regression, in the target's units
	GradientNorm  Float  `json:"gradient_norm"`            // of the MAP objective at θ*
	LargestInput  Float  `json:"largest_input"`            // in size, as the network sees it
}
