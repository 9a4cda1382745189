package result

// A NamedRow identifies the row of the data that an example comes from.
type NamedRow struct {
	Index     Index   `json:"index"` // row in the original file, from 0
	Label     Float   `json:"label"` // label or target; null where unknown or several
	LabelName string  `json:"label_name,omitempty"`
	ID        string  `json:"id,omitempty"`
	Targets   []Float `json:"targets,omitempty"` // set only in a prediction for a row with several targets
}
