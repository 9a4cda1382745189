package main

import (
	"slices"
	"strconv"
	"strings"
)

// parseClasses reads "4,9"; "" is nil.
func parseClasses(text string) ([]int, error) {
	list, err := parseInts("--classes", text)
	if err != nil {
		return nil, err
	}
	for i, k := range list {
		if slices.Contains(list[:i], k) {
			return nil, usagef("--classes %s names class %d twice", text, k)
		}
	}
	if text != "" && len(list) < 2 {
		return nil, usagef("--classes %s must name at least two classes", text)
	}
	return list, nil
}

func parseInts(flag, text string) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	var list []int
	for field := range strings.SplitSeq(text, ",") {
		k, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil {
			return nil, usagef("%s %q is not a list of integers such as 4,9", flag, text)
		}
		list = append(list, k)
	}
	return list, nil
}

// formatInts is the inverse of parseInts.
func formatInts(list []int) string {
	out := make([]string, len(list))
	for i, k := range list {
		out[i] = strconv.Itoa(k)
	}
	return strings.Join(out, ",")
}
