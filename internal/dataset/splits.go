package dataset

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/funcgp/funcgp/internal/inputfile"
	"github.com/funcgp/funcgp/internal/option"
)

// readSplit reads split k from the splits file beside csvPath, FILE.splits.csv. It returns the
// rows of each part, ascending. n is the number of rows in the CSV file.
func readSplit(ctx context.Context, csvPath string, k, n int) (map[string][]int, error) {
	stem, _ := csvStem(csvPath)
	path := stem + ".splits.csv"
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

// readSplits reads the lines of a file, which have the fields split, row and part, and keeps those of split k.
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
	var others []int
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
		fail := func(j int, problem string, remedy option.Text) (map[string][]int, error) {
			return nil, &Error{File: name, Line: in.line(j), Place: place(j, ""), Problem: problem, Remedy: remedy}
		}
		split, noSplit := strconv.Atoi(strings.TrimSpace(rec[0]))
		row, noRow := strconv.Atoi(strings.TrimSpace(rec[1]))
		part := strings.TrimSpace(rec[2])
		switch {
		case noSplit != nil || split < 0:
			return fail(0, option.Quote(rec[0])+" is not a split number", "write 0 or more")
		case noRow != nil || row < 0:
			return fail(1, option.Quote(rec[1])+" is not a row number", "write the 0-based row of the data file")
		case row >= n:
			return fail(1, fmt.Sprintf("row %d is past the end: the data have rows 0 to %d", row, n-1), "take both files from the same source")
		case part != "train" && part != "valid" && part != "test":
			return fail(2, option.Quote(rec[2])+" is not a part", "write train, valid or test")
		case split != k:
			if !slices.Contains(others, split) {
				others = append(others, split)
			}
			continue
		case seen[row]:
			return nil, &Error{File: name, Line: in.line(1), Problem: fmt.Sprintf("row %d is in split %d twice", row, k), Remedy: "list each row once"}
		}
		seen[row] = true
		parts[part] = append(parts[part], row)
	}
	switch {
	case len(parts) > 0 && len(parts["train"]) == 0:
		return nil, &Error{File: name, Problem: fmt.Sprintf("split %d has no training rows", k), Remedy: "choose another split"}
	case len(parts) == 0 && len(others) == 0:
		return nil, &Error{File: name, Problem: fmt.Sprintf("there is no split %d", k), Remedy: "the file has no rows"}
	case len(parts) == 0:
		slices.Sort(others)
		return nil, &Error{File: name, Problem: fmt.Sprintf("there is no split %d", k), Remedy: option.Textf("choose from %s", listOf(others, strconv.Itoa))}
	}
	// An empty part must not be nil, which would mean the whole file.
	for _, p := range []string{"train", "valid", "test"} {
		parts[p] = append([]int{}, parts[p]...)
		slices.Sort(parts[p])
	}
	return parts, nil
}
