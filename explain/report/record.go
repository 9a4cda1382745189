package report

import (
	"time"

	"github.com/funcgp/funcgp/explain/result"
)

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
	Accuracy, RMSE result.Float
	NLL            result.Float // negative log likelihood of a row, in nats
}
