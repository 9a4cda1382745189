package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain/result"
)

// listPage has rows with pictures, with others beside them or not, and an empty list.
func listPage() *ListPage {
	pixels := make([]byte, 64)
	for i := range pixels {
		pixels[i] = byte(4 * i)
	}
	row := func(i result.Index, label string) ListedRow { return ListedRow{Index: i, Label: label, Value: "+1.25"} }
	long := strings.Repeat("unbroken", 12)
	p := &ListPage{Title: "Rows worth a look", Eyebrow: "12 rows", Note: "What the lists are.", Fit: &result.Fit{Examples: 12, Outputs: 1}, Timings: &result.Timings{},
		Picture: func(result.Index) result.Picture { return result.Gray(pixels, 8, 8) }, Origin: Origin{Invert: true, Model: strings.Repeat("path/", 60)}}
	beside := List{Title: "With others", Note: "In nats.", Columns: []string{"suggested", "log density"}, Beside: "the rows that say so"}
	alone := List{Title: "Alone", Note: "No unit.", Columns: []string{"leverage"}}
	for i := range result.Index(9) {
		beside.Items = append(beside.Items, ListItem{Row: row(i, "<script>alert(1)</script>"), Values: []string{long, "-3.2"}, Beside: []ListedRow{row(i+1, "a"), row(i+2, long), row(i+3, "c"), row(i+4, "d")}})
		alone.Items = append(alone.Items, ListItem{Row: ListedRow{Index: i, ID: long}, Values: []string{"0.93"}})
	}
	p.Lists = []List{beside, {Title: "Empty", Note: "None.", Empty: "No two rows are equal."}, alone}
	return p
}

func listHTMLOf(t *testing.T, p *ListPage) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, p.WriteHTML(&b))
	return b.String()
}

// Every row, value and note is on the page, escaped, as pictures or as a table.
func TestListPage(t *testing.T) {
	pictures := listHTMLOf(t, listPage())
	require.Equal(t, 9*5+9, strings.Count(pictures, "<img "))
	tabled := listPage()
	tabled.Picture = func(i result.Index) result.Picture {
		return result.Picture{Names: []string{"x", "<b>"}, Values: []float64{float64(i), -2}}
	}
	table := listHTMLOf(t, tabled)
	require.Zero(t, strings.Count(table, "<img "))
	require.Equal(t, 2, strings.Count(table, `<table class="rows">`))
	bare := listPage()
	bare.Picture = nil
	for _, page := range []string{pictures, table, listHTMLOf(t, bare)} {
		require.False(t, strings.Contains(page, "<script>"))
		for _, text := range []string{"In nats.", "No unit.", "No two rows are equal.", "−3.2", "0.93", "&lt;script&gt;", "row 11", "1.25"} {
			require.True(t, strings.Contains(page, text), text)
		}
	}
}
