package dataset

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/internal/inputfile"
)

// splitsPath returns the path of the splits of FILE.csv.
func splitsPath(csvPath string) string {
	stem, _ := csvStem(csvPath)
	return stem + ".splits.csv"
}

// readSplit reads split k from the splits file beside csvPath. It returns the
// rows of each part, ascending. n is the number of rows in the CSV file.
func readSplit(ctx context.Context, csvPath string, k, n int) (map[string][]int, error) {
	path := splitsPath(csvPath)
	f, err := inputfile.Open(ctx, path)
	if interrupted(err) {
		return nil, err
	}
	if err != nil {
		return nil, &Error{
			File: path, Problem: "a split was asked for, but its file cannot be opened", Err: err,
			Remedy: "put it there (columns split,row,part) or give the test rows in a file of their own",
		}
	}
	defer f.Close()
	return readSplits(f, path, k, n)
}

func readSplits(r io.Reader, name string, k, n int) (map[string][]int, error) {
	in := newRecords(r, name)
	header, err := in.next()
	if err != nil && err != io.EOF {
		return nil, err
	}
	if h := trimAll(header); !slices.Equal(h, []string{"split", "row", "part"}) {
		return nil, &Error{File: name, Line: 1, Problem: "the header is not split,row,part", Remedy: "write one line a row of each split"}
	}
	parts := map[string][]int{}
	seen := make([]bool, n)
	others := map[int]bool{}
	for {
		rec, err := in.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(rec) != 3 {
			return nil, &Error{File: name, Line: in.line(0), Problem: fmt.Sprintf("%d fields, want split,row,part", len(rec))}
		}
		split, row, part, err := in.splitLine(rec, n)
		if err != nil {
			return nil, err
		}
		if split != k {
			others[split] = true
			continue
		}
		if seen[row] {
			return nil, &Error{File: name, Line: in.line(1), Problem: fmt.Sprintf("row %d is in split %d twice", row, k), Remedy: "list each row once"}
		}
		seen[row] = true
		parts[part] = append(parts[part], row)
	}
	if len(parts["train"]) == 0 {
		return nil, noSplit(name, k, parts, others)
	}
	for _, rows := range parts {
		slices.Sort(rows)
	}
	// An empty part must not be nil, which would mean the whole file.
	for _, p := range []string{"valid", "test"} {
		if parts[p] == nil {
			parts[p] = []int{}
		}
	}
	return parts, nil
}

// splitLine reads the split, row and part of one line.
func (in *records) splitLine(rec []string, n int) (split, row int, part string, err error) {
	fail := func(j int, problem, remedy string) (int, int, string, error) {
		return 0, 0, "", &Error{File: in.name, Line: in.line(j), Place: fmt.Sprintf("column %d", j+1), Problem: problem, Remedy: remedy}
	}
	split, err = strconv.Atoi(strings.TrimSpace(rec[0]))
	if err != nil || split < 0 {
		return fail(0, quote(rec[0])+" is not a split number", "write 0 or more")
	}
	row, err = strconv.Atoi(strings.TrimSpace(rec[1]))
	if err != nil || row < 0 {
		return fail(1, quote(rec[1])+" is not a row number", "write the 0-based row of the data file")
	}
	if row >= n {
		return fail(1, fmt.Sprintf("row %d is past the end: the data have rows 0 to %d", row, n-1), "take both files from the same source")
	}
	switch part = strings.TrimSpace(rec[2]); part {
	case "train", "valid", "test":
		return split, row, part, nil
	}
	return fail(2, quote(rec[2])+" is not a part", "write train, valid or test")
}

// noSplit returns the error for a split that has no training rows.
func noSplit(name string, k int, parts map[string][]int, others map[int]bool) error {
	if len(parts) > 0 {
		return &Error{File: name, Problem: fmt.Sprintf("split %d has no training rows", k), Remedy: "choose another split"}
	}
	have := make([]int, 0, len(others))
	for s := range others {
		have = append(have, s)
	}
	slices.Sort(have)
	e := &Error{File: name, Problem: fmt.Sprintf("there is no split %d", k), Remedy: "choose from " + list(have)}
	if len(have) == 0 {
		e.Remedy = "the file has no rows"
	}
	return e
}
