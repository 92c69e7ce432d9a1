"""What everything else rests on: errors, files and locks, plug-ins, progress, parallel work."""
