package events

// Rights returns all rights.
func Rights() (list []Right) {
	for r := ReadWorkspace; int(r) < len(rights); r++ {
		list = append(list, r)
	}
	return list
}
