package main

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
)

// difference is a difference in one family.
type difference struct {
	family string
	what   string
}

const (
	onlyHere  = "only here"
	onlyThere = "only there"
)

// compare returns the differences, sorted by name.
func compare(here, there families) []difference {
	var found []difference
	for name, ours := range here {
		theirs, ok := there[name]
		if !ok {
			found = append(found, difference{name, onlyHere})
			continue
		}
		add := func(what string, here, there any) {
			if here, there := fmt.Sprint(here), fmt.Sprint(there); here != there {
				text := fmt.Sprintf("%s: %s here, %s there", what, here, there)
				found = append(found, difference{name, text})
			}
		}
		add("type", ours.kind, theirs.kind)
		add("labels", ours.labels, theirs.labels)
		add("results", ours.results, theirs.results)
		add("buckets", ours.buckets, theirs.buckets)
	}
	for name := range there {
		if _, ok := here[name]; !ok {
			found = append(found, difference{name, onlyThere})
		}
	}
	slices.SortFunc(found, func(a, b difference) int {
		return strings.Compare(a.family+a.what, b.family+b.what)
	})
	return found
}

// readRows reads the table below the heading "## Differences": the first cell is a name in
// backticks, which may end in an asterisk, and the second describes the difference.
func readRows(path string) ([]difference, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var rows []difference
	isTable := false
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "## ") {
			isTable = line == "## Differences"
		}
		cells := strings.Split(line, "|")
		if !isTable || len(cells) < 4 || !strings.HasPrefix(line, "| `") {
			continue
		}
		name := strings.Trim(strings.TrimSpace(cells[1]), "`")
		rows = append(rows, difference{name, strings.TrimSpace(cells[2])})
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s has no table below \"## Differences\"", path)
	}
	return rows, lines.Err()
}

func (row difference) covers(found difference) bool {
	if row.what != found.what {
		return false
	}
	if prefix, ok := strings.CutSuffix(row.family, "*"); ok {
		return strings.HasPrefix(found.family, prefix)
	}
	return row.family == found.family
}

// check fails if the differences are not those of the table.
func check(found, rows []difference) error {
	var problems []string
	used := make([]bool, len(rows))
	for _, one := range found {
		index := slices.IndexFunc(rows, func(row difference) bool { return row.covers(one) })
		if index < 0 {
			problem := fmt.Sprintf("%s differs, and is not in the table: %s", one.family, one.what)
			problems = append(problems, problem)
			continue
		}
		used[index] = true
	}
	for index, row := range rows {
		// A Go registry leaves out families that have no series yet, such as retries.
		if !used[index] && row.what != onlyThere {
			problem := fmt.Sprintf("%s is in the table, but does not differ: %s", row.family, row.what)
			problems = append(problems, problem)
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("%d differences from the table:\n  %s",
			len(problems), strings.Join(problems, "\n  "))
	}
	fmt.Printf("%d differences, all in the table\n", len(found))
	return nil
}
