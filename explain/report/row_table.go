package report

import "strings"

// The data of the template of a table of rows that have features and no picture.
type htmlRows struct {
	Columns []htmlCell
	Rows    [][]htmlCell
}

// tableFeatures is the largest number of features in a table of rows.
const tableFeatures = 5

// newRowTable is a table with these columns and the first features of the rows, nil
// where a row has a picture or none has features.
func newRowTable(rows []Picture, columns ...string) *htmlRows {
	t := &htmlRows{}
	most := 0
	for _, p := range rows {
		if p.Image != nil {
			return nil
		}
		most = max(most, len(p.Values))
	}
	if most == 0 {
		return nil
	}
	for _, name := range columns {
		t.Columns = append(t.Columns, htmlCell{Value: name, Class: "text"})
	}
	for i := range min(most, tableFeatures) {
		t.Columns = append(t.Columns, htmlCell{Value: rows[0].name(i), Extra: true})
	}
	if most > tableFeatures {
		t.Columns[len(t.Columns)-1].Says = "and " + some(most-tableFeatures, "other feature", "other features")
	}
	return t
}

// add appends a row with the given cells and its features.
func (t *htmlRows) add(p Picture, cells ...htmlCell) {
	cells[0].Value = strings.Replace(cells[0].Value, "row ", "row\u00a0", 1)
	for i, v := range p.Values {
		if i < tableFeatures {
			cells = append(cells, htmlCell{Value: grouped(typeset(datum(v))), Extra: true})
		}
	}
	t.Rows = append(t.Rows, cells)
}
