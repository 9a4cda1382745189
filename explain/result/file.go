package result

import "os"

// A Saved is the posterior in a file, as gpexplain fit and merge report it.
type Saved struct {
	Schema  string  `json:"schema"` // funcgp/fit/1
	File    string  `json:"file"`
	Bytes   int64   `json:"bytes"`            // as of FileSize
	Trials  []Trial `json:"trials,omitempty"` // of a prior precision that was tuned
	Fit     Fit     `json:"fit"`
	Timings Timings `json:"timings"`
}

// A Part describes a file with the inducing examples of a pass over the training rows, or with a part of the
// pass's sums.
type Part struct {
	Schema   string  `json:"schema"` // funcgp/part/1
	File     string  `json:"file"`
	Bytes    int64   `json:"bytes"`           // as of FileSize
	Part     string  `json:"part,omitempty"`  // I/N; "" of the inducing examples
	First    *int    `json:"first,omitempty"` // position of the part's first row among the training rows
	Examples int     `json:"examples"`        // training rows of the part, or of all parts
	Inducing int     `json:"inducing"`        // inducing examples or rows
	Rows     int     `json:"rows"`            // of their kernel
	Rank     int     `json:"rank"`
	Timings  Timings `json:"timings"`
}

// FileSize returns the size of a file in bytes. It is 0 for something without a size, such as a pipe.
func FileSize(path string) int64 {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		return info.Size()
	}
	return 0
}
