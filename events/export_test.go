package events

// Rights returns all rights.
func Rights() (list []Right) {
	for r := ReadWorkspace; r < endOfRights; r++ {
		list = append(list, r)
	}
	return list
}
