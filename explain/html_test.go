package explain

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShowHTML(t *testing.T) {
	dir := os.Getenv("SHOW")
	if dir == "" {
		t.Skip("SHOW names no directory")
	}
	for name, p := range map[string]*Page{
		"right": newDemo(1, 200, 9, 4, 9).page(t, 9, &Options{Sides: true, Similar: 8}),
		"wrong": newDemo(2, 200, 4, 4, 9).page(t, 9, &Options{Sides: true, Similar: 8, Top: 12}),
		"many":  newDemo(3, 100, 3, 0, 3, 5, 8).page(t, 3, &Options{Sides: true, Similar: 8, Targets: []Target{Single(0), Single(1), Single(2), Single(3), Contrast(1, 3)}}),
	} {
		f, err := os.Create(filepath.Join(dir, name+".html"))
		require.NoError(t, err)
		require.NoError(t, p.WriteHTML(f))
		require.NoError(t, f.Close())
	}
}

func TestShowPNG(t *testing.T) {
	dir := os.Getenv("SHOW")
	if dir == "" {
		t.Skip("SHOW names no directory")
	}
	for name, p := range map[string]*Page{
		"right": newDemo(1, 200, 9, 4, 9).page(t, 9, &Options{Similar: 8}),
		"wrong": newDemo(2, 200, 4, 4, 9).page(t, 9, &Options{Similar: 8, Top: 12}),
	} {
		f, err := os.Create(filepath.Join(dir, name+"_chart.png"))
		require.NoError(t, err)
		require.NoError(t, p.WritePNG(f))
		require.NoError(t, f.Close())
	}
}
